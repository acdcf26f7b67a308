/**
 * JSON as Go's encoder writes it, because the API server's messages carry values in this form. Go escapes the characters
 * that could end a script element in a page. Not for storing objects: there any JSON will do.
 */
export function goJson(value: unknown): string {
  const json = JSON.stringify(value) ?? 'null';
  return json.replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
