// Languages, by the codes that models have.

const JOINED = new Set(["zh", "yue", "ja", "th", "lo", "my", "km", "bo"]);

// Whether a language is written without spaces between words.
export function joined(language) {
  return JOINED.has(language);
}

// [{code, name}] in the order of their names, as the page's reader calls them.
export function named(codes) {
  const names = new Intl.DisplayNames(navigator.languages, { type: "language" });
  return codes
    .map((code) => ({ code, name: nameOf(names, code) }))
    .sort((one, other) => one.name.localeCompare(other.name));
}

function nameOf(names, code) {
  try {
    return names.of(code) ?? code;
  } catch {  // a code that is none to browsers
    return code;
  }
}
