/** The manifest files a user names with `-f`: a file, or a directory of them. Reads text; its meaning is not our concern. */
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { MountletError, errorCode, messageOf } from '../base/errors.ts';

export interface SourceFile {
  readonly name: string;
  readonly text: string;
}

export class SourceFileError extends MountletError {
  readonly reason = 'UnreadableSource';
}

// Of a directory only these are read, and not those of its subdirectories, as kubectl does.
const extensions = /\.(ya?ml|json)$/;
// Larger than any set of manifests an API server would take; a device or a log named by mistake ends here.
const sizeBytesMax = 64 * 1024 * 1024;

export function readSourceFiles(path: string): readonly SourceFile[] {
  return sourcePaths(path).map((name) => ({ name, text: readText(name) }));
}

function sourcePaths(path: string): readonly string[] {
  if (!attempt(path, () => statSync(path)).isDirectory()) return [path];
  const names = attempt(path, () => readdirSync(path)).filter((name) => extensions.test(name));
  if (names.length === 0)
    throw new SourceFileError(`Cannot find a manifest in "${path}": it holds no .yaml, .yml or .json file`);
  return names.sort().map((name) => join(path, name));
}

function readText(path: string): string {
  const { size } = attempt(path, () => statSync(path));
  if (size > sizeBytesMax)
    throw new SourceFileError(`Cannot read "${path}": it is larger than 64 MiB, which no manifest is`);
  return decodeText(
    path,
    attempt(path, () => readFileSync(path)),
  );
}

/** Bytes that are not UTF-8 would become other bytes in a ConfigMap, so they are refused. */
export function decodeText(name: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SourceFileError(`Cannot read "${name}": it is not UTF-8 text`, { cause });
  }
}

function attempt<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    const why = errorCode(cause) === 'ENOENT' ? 'there is no such file or directory' : messageOf(cause);
    throw new SourceFileError(`Cannot read "${path}": ${why}`, { cause });
  }
}
