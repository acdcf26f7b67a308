/** The folder of manifests as its source needs it; `agent/` reads the real one. */
export interface FolderReader {
  /** As it is named in messages. */
  readonly path: string;
  /** Names of the regular files in it, not of those below; undefined if the folder itself is missing. */
  list(signal: AbortSignal): Promise<readonly string[] | undefined>;
  /** Rejects with FileTooLargeError, or with an error of the system. */
  read(name: string, bytesMax: number, signal: AbortSignal): Promise<string>;
  /** Tells that something in the folder may be different. It may tell too often, and need not tell at all. */
  changes(signal: AbortSignal): AsyncIterable<void>;
}
