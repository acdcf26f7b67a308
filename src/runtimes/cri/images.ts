/** The images of a CRI runtime: its image service, with answers that are checked. */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { GrpcError } from '../../grpc/grpc-error.ts';
import type { PodSandboxConfigSchema } from '../../grpc/messages/cri_pb.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import {
  type ImageFilesystem,
  type ImageStatus,
  type PodRequest,
  type PullCredential,
  RuntimeError,
  type RuntimeImage,
  type RuntimeImages,
} from '../runtime.ts';
import { type CriConnection, type ImageCalls, type RuntimeCalls, requestMsMax, unlessGone } from './cri-connection.ts';

type Sandbox = MessageInitShape<typeof PodSandboxConfigSchema>;

export class CriImages implements RuntimeImages {
  readonly #calls: ImageCalls;
  readonly #runtime: Pick<RuntimeCalls, 'status'>;
  readonly #sandboxOf: (pod: PodRequest) => Sandbox;

  /** `sandboxOf`: a runtime may keep what it pulls where the pod's sandbox is. */
  constructor({ images, runtime }: Pick<CriConnection, 'images' | 'runtime'>, sandboxOf: (pod: PodRequest) => Sandbox) {
    this.#calls = images;
    this.#runtime = runtime;
    this.#sandboxOf = sandboxOf;
  }

  async status(image: string, signal: AbortSignal): Promise<ImageStatus | undefined> {
    const answer = await this.#calls.imageStatus({ image: { image } }, { timeoutMs: requestMsMax, signal });
    if (answer.image === undefined) return undefined;
    const { id, size, uid, username } = answer.image;
    if (id === '' || size === 0n) throw new RuntimeError(`Id or size of image ${goQuote(image)} is not set`);
    // One that names no user runs as root.
    const user = username === '' ? { uid: Number(uid?.value ?? 0n) } : { username };
    return { id, sizeBytes: Number(size), ...user };
  }

  /** Without a deadline: nobody knows how large an image is. */
  async pull(
    image: string,
    credential: PullCredential | undefined,
    pod: PodRequest,
    signal: AbortSignal,
  ): Promise<ImageStatus> {
    const request = {
      image: { image, annotations: { ...pod.annotations } },
      ...(credential && { auth: { ...credential } }),
      sandboxConfig: this.#sandboxOf(pod),
    };
    const options = { timeoutMs: undefined, signal };
    const { imageRef } = await this.#calls.pullImage(request, options).catch((error: unknown) => {
      throw withCode(error);
    });
    if (imageRef === '') throw new RuntimeError(`imageRef of image ${goQuote(image)} is not set`);
    const status = await this.status(image, signal).catch(() => undefined);
    signal.throwIfAborted();
    return { ...(status ?? { sizeBytes: 0 }), id: imageRef };
  }

  async list(signal: AbortSignal): Promise<readonly RuntimeImage[]> {
    const { images } = await this.#calls.listImages({}, { timeoutMs: requestMsMax, signal });
    const ofSandboxes = await this.#imageOfSandboxes(signal);
    return images
      .filter(({ id }) => id !== '')
      .map(({ id, repoTags: tags, repoDigests: digests, size, pinned }) => {
        const isNeeded = pinned || (ofSandboxes !== undefined && [id, ...tags, ...digests].includes(ofSandboxes));
        return { id, tags, digests, sizeBytes: Number(size), pinned: isNeeded };
      });
  }

  /** Containerd before 1.7 pins no image, but names the one that it makes sandboxes of in its configuration. */
  async #imageOfSandboxes(signal: AbortSignal): Promise<string | undefined> {
    const { info } = await this.#runtime.status({ verbose: true }, { timeoutMs: requestMsMax, signal });
    try {
      const { sandboxImage } = JSON.parse(info['config'] ?? '{}') as { readonly sandboxImage?: unknown };
      return typeof sandboxImage === 'string' ? sandboxImage : undefined;
    } catch {
      return undefined; // what is in it is each runtime's own affair
    }
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    await unlessGone(this.#calls.removeImage({ image: { image: id } }, { timeoutMs: requestMsMax, signal }));
  }

  async filesystem(signal: AbortSignal): Promise<ImageFilesystem> {
    const { imageFilesystems } = await this.#calls.imageFsInfo({}, { timeoutMs: requestMsMax, signal });
    const [first] = imageFilesystems;
    if (first?.fsId === undefined) throw new RuntimeError('the container runtime does not say where its images are');
    return {
      mountPoint: first.fsId.mountpoint,
      usedBytes: Number(first.usedBytes?.value ?? 0n),
      inodesUsed: Number(first.inodesUsed?.value ?? 0n),
    };
  }
}

/** The kubelet shows the code of a failed pull, where it says something: `rpc error: code = NotFound desc = …`. */
function withCode(error: unknown): unknown {
  const cause = error instanceof RuntimeError ? error.cause : undefined;
  if (!(cause instanceof GrpcError) || ['UNKNOWN', 'UNAVAILABLE'].includes(cause.code)) return error;
  const code = cause.code.toLowerCase().replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return new RuntimeError(`rpc error: code = ${code} desc = ${cause.message}`, { cause });
}
