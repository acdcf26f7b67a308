/** Times as the API writes them; nodes write them too, so that they live in `kube/`. */
export { microTimestamp, timestamp } from '../kube/values/timestamp.ts';
