/**
 * What runs the pods of `mountlet up` in a test file. The same walkthroughs hold for every runtime: `cri-pod-life.test.ts` is
 * `up-pod-life.test.ts` after `with-containerd.ts`.
 */
import { networkInterfaces } from 'node:os';
import {
  type Containerd,
  type ContainerdSettings,
  containerdSkip,
  startContainerd,
} from '../src/testing/machine/containerd.ts';
import { busyboxImage } from '../src/testing/machine/oci-image.ts';

/** The runtime of one machine, while it runs. */
export interface RunningRuntime {
  /** Of `mountlet up`. */
  readonly args: readonly string[];
  /** What of pods is on this machine and not below the node's state directory. */
  left(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export interface TestedRuntime {
  /** False where it can run, else the reason. */
  readonly skip: string | false;
  /** What a RuntimeClass names it. */
  readonly handler: string;
  start(): Promise<RunningRuntime>;
  /** Without images, a container that has no command of its own only idles. */
  readonly hasImages: boolean;
  /** Of `mountlet up`, where pods are to reach its API server. */
  readonly forClients: readonly string[];
  /** A command for a shell that answers requests over HTTP with a text. */
  httpServer(port: number, text: string): string;
  /** A command for a shell that sends a text to whoever connects from its own pod. */
  tcpServer(port: number, text: string): string;
}

/** Pods are processes with the programs of this machine. */
const processRuntime: TestedRuntime = {
  skip: false,
  handler: 'process',
  hasImages: false,
  forClients: [], // it leads them to the loopback address
  start: () => Promise.resolve({ args: [], left: () => Promise.resolve([]), close: () => Promise.resolve() }),
  httpServer: (port, text) =>
    `exec ${process.execPath} -e "require('http').createServer((_, a) => a.end('${text}')).listen(${port})"`,
  tcpServer: (port, text) =>
    `exec ${process.execPath} -e "require('net').createServer((s) => s.end('${text}')).listen(${port}, '127.0.0.1')"`,
};

/** Under the names that the walkthroughs use. */
const walkthroughImages = ['test:1', 'nginx:1.8'];

/** Pods are containers of a containerd of the machine's own, with busybox in them. */
export const containerdRuntime: TestedRuntime = {
  skip: containerdSkip(),
  handler: 'runc',
  hasImages: true,
  forClients: ['--listen', `${machineAddress()}:0`],
  async start() {
    const containerd = await containerdWithImages();
    return runningContainerd(containerd);
  },
  httpServer: (port, text) =>
    `mkdir /tmp/www; printf ${text} >/tmp/www/index.html; exec httpd -f -p ${port} -h /tmp/www`,
  tcpServer: (port, text) => `exec nc -ll -p ${port} -e printf '${text}'`,
};

/** One that pods in networks of their own reach. */
function machineAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  return all.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '0.0.0.0';
}

function runningContainerd(containerd: Containerd, endpoint = containerd.endpoint): RunningRuntime {
  return {
    args: ['--runtime', 'cri', '--container-runtime-endpoint', endpoint],
    left: async () => [...containerd.left(), ...(await containerd.stored())],
    close: () => containerd.close(),
  };
}

/** Whoever asks for it ends it. */
export async function containerdWithImages(settings: ContainerdSettings = {}): Promise<Containerd> {
  const containerd = await startContainerd({ after: () => {} }, settings);
  for (const name of walkthroughImages) await containerd.import(busyboxImage({ name: `docker.io/library/${name}` }));
  return containerd;
}

/** One that a test has in its hands; the machine ends it. The endpoint may be that of a relay. */
export function thisContainerd(containerd: Containerd, endpoint?: string): TestedRuntime {
  return { ...containerdRuntime, start: () => Promise.resolve(runningContainerd(containerd, endpoint)) };
}

let chosen = processRuntime;

export function testedRuntime(): TestedRuntime {
  return chosen;
}

/** Before the file with the tests is imported. */
export function testWith(runtime: TestedRuntime): void {
  chosen = runtime;
}
