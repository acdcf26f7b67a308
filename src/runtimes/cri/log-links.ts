/**
 * Names for the logs of containers in one flat folder, where log collectors of clusters look for them: `/var/log/containers` has
 * links into `/var/log/pods`.
 */
import { mkdir, readdir, readlink, rm, stat, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode, messageOf } from '../../base/errors.ts';

interface LogLinksSettings {
  /** `/var/log/containers`; undefined: no links are made. */
  readonly directory: string | undefined;
  /** Where pods have their folders of logs. */
  readonly logRoot: string;
}

interface LoggedContainer {
  readonly id: string;
  readonly name: string;
  readonly podName: string;
  readonly podNamespace: string;
  readonly logPath: string;
}

/** Of a file's name. */
const charactersMax = 255;
const suffix = '.log';

export class LogLinks {
  readonly #settings: LogLinksSettings;
  readonly #report: (problem: string) => void;
  #isFailing = false;

  constructor(settings: LogLinksSettings, report: (problem: string) => void) {
    this.#settings = settings;
    this.#report = report;
  }

  /** For a container that has started: the runtime has made its log, if it makes one. */
  async add(container: LoggedContainer): Promise<void> {
    await this.#inDirectory(async (directory) => {
      if ((await stat(container.logPath).catch(() => undefined)) === undefined) return;
      await mkdir(directory, { recursive: true, mode: 0o755 });
      await symlink(container.logPath, join(directory, linkName(container))).catch((thrown: unknown) => {
        if (errorCode(thrown) !== 'EEXIST') throw thrown;
      });
    });
  }

  async remove(containerId: string): Promise<void> {
    await this.#inDirectory(async (directory) => {
      for (const name of await namesIn(directory)) {
        if (name.endsWith(`-${containerId}${suffix}`)) await rm(join(directory, name), { force: true });
      }
    });
  }

  /** Those whose log is gone. While a log is rotated there is none at its path, but the one from before beside it. */
  async removeBroken(): Promise<void> {
    await this.#inDirectory(async (directory) => {
      for (const name of await namesIn(directory)) {
        const target = await readlink(join(directory, name)).catch(() => '');
        if (!target.startsWith(`${this.#settings.logRoot}/`)) continue;
        const logs = await namesIn(dirname(target));
        if (!logs.some((log) => log.startsWith(basename(target)))) await rm(join(directory, name), { force: true });
      }
    });
  }

  /** A link that cannot be made or removed does not keep a container from running or going. */
  async #inDirectory(act: (directory: string) => Promise<void>): Promise<void> {
    const { directory } = this.#settings;
    if (directory === undefined) return;
    try {
      await act(directory);
      this.#isFailing = false;
    } catch (thrown) {
      if (!this.#isFailing) this.#report(`cannot keep links to logs in "${directory}": ${messageOf(thrown)}`);
      this.#isFailing = true;
    }
  }
}

function linkName({ podName, podNamespace, name, id }: LoggedContainer): string {
  return `${`${podName}_${podNamespace}_${name}-${id}`.slice(0, charactersMax - suffix.length)}${suffix}`;
}

async function namesIn(directory: string): Promise<readonly string[]> {
  return await readdir(directory).catch((thrown: unknown) => {
    if (errorCode(thrown) === 'ENOENT') return [];
    throw thrown;
  });
}
