/** The manifests a user names: files, directories, or `-` for what is piped in. */
import { SourceSize, decodeText, readSourceFiles } from '../disk/paths/source-files.ts';
import type { ManifestFile } from '../kube/manifests/manifests.ts';

const standardInput = '-';
const standardInputName = '<stdin>';

export async function readSources(
  paths: readonly string[],
  openStandardInput: () => AsyncIterable<Uint8Array>,
): Promise<readonly ManifestFile[]> {
  const files: ManifestFile[] = [];
  for (const path of paths) {
    if (path === standardInput) files.push({ name: standardInputName, text: await readAll(openStandardInput()) });
    else files.push(...readSourceFiles(path));
  }
  return files;
}

async function readAll(input: AsyncIterable<Uint8Array>): Promise<string> {
  const size = new SourceSize(standardInputName);
  const chunks: Uint8Array[] = [];
  for await (const chunk of input) {
    size.add(chunk.length);
    chunks.push(chunk);
  }
  return decodeText(standardInputName, Buffer.concat(chunks));
}
