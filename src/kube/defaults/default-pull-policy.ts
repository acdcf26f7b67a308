/** When an image is pulled, where nobody said: one without a tag moves like `latest` and is asked for every time. */
import { ImageReferenceError, parseImageReference } from '../values/image-reference.ts';

/** A text that names no image gets the quieter default: pulling it will say what is wrong. */
export function defaultPullPolicy(image: string): 'Always' | 'IfNotPresent' {
  try {
    return parseImageReference(image).tag === 'latest' ? 'Always' : 'IfNotPresent';
  } catch (error) {
    if (error instanceof ImageReferenceError) return 'IfNotPresent';
    throw error;
  }
}
