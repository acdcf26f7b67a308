/** The bytes of `data` and `binaryData`, which JSON carries as base64. Line breaks in the text are ignored, as Go does. */

export function decodeBase64(text: string): Buffer {
  return Buffer.from(text, 'base64');
}

export function encodeBase64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** Counted without decoding: a Secret may hold a mebibyte, and its size is asked for more often than its bytes. */
export function base64SizeBytes(text: string): number {
  const packed = text.replace(/[\r\n]/g, '');
  const padding = packed.endsWith('==') ? 2 : Number(packed.endsWith('='));
  return (packed.length / 4) * 3 - padding;
}
