"""How the little Parakeet model of the tests is made: see README.md."""
