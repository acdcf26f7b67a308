/** When an image is asked for again, where nobody says so. */
import { ImageReferenceError, parseImageReference } from './image-reference.ts';

/** An image without a tag moves like one tagged `latest`, and is asked for every time. A name that is none stays as it is. */
export function defaultPullPolicy(image: string): 'Always' | 'IfNotPresent' {
  try {
    return parseImageReference(image).tag === 'latest' ? 'Always' : 'IfNotPresent';
  } catch (error) {
    if (error instanceof ImageReferenceError) return 'IfNotPresent';
    throw error;
  }
}
