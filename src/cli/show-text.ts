/** Text of objects on a terminal. */
/** One line is one line, in the order it is read: characters that steer a terminal are shown and not sent to it. */
export function showText(text: string): string {
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (character) => {
    const short: Record<string, string> = { '\n': '\\n', '\t': '\\t', '\r': '\\r' };
    const code = character.charCodeAt(0);
    const digits = code.toString(16).padStart(2, '0');
    return short[character] ?? (code > 0xff ? `\\u${digits}` : `\\x${digits}`);
  });
}
