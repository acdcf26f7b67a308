/** The manifests a user names: files, directories, or `-` for what is piped in. */
import { decodeText, readSourceFiles } from '../disk/source-files.ts';
import type { ManifestFile } from '../kube/manifests.ts';

const standardInput = '-';

export async function readSources(
  paths: readonly string[],
  readStandardInput: () => Promise<Uint8Array>,
): Promise<readonly ManifestFile[]> {
  const files: ManifestFile[] = [];
  for (const path of paths) {
    if (path === standardInput) files.push({ name: '<stdin>', text: decodeText('<stdin>', await readStandardInput()) });
    else files.push(...readSourceFiles(path));
  }
  return files;
}
