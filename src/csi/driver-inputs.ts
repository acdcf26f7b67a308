/**
 * What a driver is given beside the volume: what its controller found out when it attached it, Secrets, tokens, facts about the
 * pod. All of it is read when it is needed, since nothing of it may be older than the call, and none of it is kept.
 */
import { withDeadline } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { MountletError, messageOf } from '../base/errors.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import type { CsiDriver } from '../kube/kinds/storage/csi.ts';
import { attachmentName } from '../kube/references/csi-volumes.ts';
import type { VolumeAttachment } from '../kube/kinds/storage/volume-attachment.ts';
import { type FailureClass, failureClassOf } from '../plugins/plugin.ts';
import { CsiError, csiError } from './failures.ts';
import { type CsiSource, type IssuedToken, type SecretRef, type Strings } from './requests.ts';

/** As long as a call of a driver: an API server that is away is what other volumes wait for too. */
const readMsMax = 120_000;

export interface DriverInputsDeps {
  readonly clock: Clock;
  readonly nodeName: string;
  readonly driverObjects: DriverObjects;
  /** Rejects when there is none. */
  readonly attachments: { get(name: string, signal: AbortSignal): Promise<VolumeAttachment> };
  /** The one that there is now. Rejects when there is none. */
  readonly secrets: { get(namespace: string, name: string, signal: AbortSignal): Promise<Secret> };
  readonly tokens: { issue(request: TokenOrder, signal: AbortSignal): Promise<IssuedToken> };
}

export interface DriverObjects {
  /** Resolves when all of them were read: before that, one that is not there says nothing. */
  whenRead(signal: AbortSignal): Promise<void>;
  get(driver: string): CsiDriver | undefined;
}

export interface TokenOrder {
  readonly pod: Pod;
  /** Empty: that of the API server. */
  readonly audience: string;
  readonly expirationSeconds: number | undefined;
}

export class DriverInputs {
  readonly #deps: DriverInputsDeps;

  constructor(deps: DriverInputsDeps) {
    this.#deps = deps;
  }

  /** Undefined: the driver says nothing of itself. Right after a start this waits until that is known. */
  async driverObject(driver: string, signal: AbortSignal): Promise<CsiDriver | undefined> {
    const { driverObjects, clock } = this.#deps;
    const late = (): Error => csiError('transient', 'CSIDrivers has not been synced yet');
    await withDeadline(clock, readMsMax, late, signal, (limited) => driverObjects.whenRead(limited));
    return driverObjects.get(driver);
  }

  /** Nothing known means that a controller has to attach it. */
  isAttached({ lifecycle, driver }: CsiSource): boolean {
    return lifecycle === 'Persistent' && this.#deps.driverObjects.get(driver)?.spec.attachRequired !== false;
  }

  attachmentName({ handle = '', driver }: CsiSource): string {
    return attachmentName({ driver, volumeHandle: handle }, this.#deps.nodeName);
  }

  /** Handle, driver and node are joined without anything between them: what has the name may be another driver's, with its context. */
  async attachment(source: CsiSource, signal: AbortSignal): Promise<VolumeAttachment> {
    const name = this.attachmentName(source);
    const attachment = await this.#deps.attachments.get(name, signal);
    const { attacher, nodeName } = attachment.spec;
    if (attacher === source.driver && nodeName === this.#deps.nodeName) return attachment;
    throw csiError('transient', `volume attachment ${name} is of driver ${attacher} on node ${nodeName}`);
  }

  async publishContext(source: CsiSource, signal: AbortSignal): Promise<Strings> {
    await this.driverObject(source.driver, signal);
    if (!this.isAttached(source)) return {};
    return (await this.attachment(source, signal)).status?.attachmentMetadata ?? {};
  }

  /** In clear. A driver is given text, so a value that is none is refused rather than changed. */
  async secret({ name, namespace }: SecretRef, podNamespace: string, signal: AbortSignal): Promise<Strings> {
    const from = namespace ?? podNamespace;
    const fail = (why: string): CsiError =>
      csiError('transient', `failed to find the secret ${name} in the namespace ${from} with error: ${why}`);
    const { data = {} } = await wrapping(
      () => this.#deps.secrets.get(from, name, signal),
      (thrown) => fail(messageOf(thrown)),
      signal,
    );
    const entries = Object.entries(data).map(([key, encoded]): [string, string] => {
      try {
        return [key, new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(encoded, 'base64'))];
      } catch {
        throw fail(`its key "${key}" is not UTF-8 text, which is all that a driver can be given`);
      }
    });
    return Object.fromEntries(entries);
  }

  /** By audience, as the driver wants them. */
  async tokens(pod: Pod, driver: CsiDriver | undefined, signal: AbortSignal): Promise<Record<string, IssuedToken>> {
    const tokens: Record<string, IssuedToken> = {};
    for (const { audience, expirationSeconds } of driver?.spec.tokenRequests ?? []) {
      tokens[audience] = await this.#deps.tokens.issue({ pod, audience, expirationSeconds }, signal);
    }
    return tokens;
  }
}

/** An expected failure in other words. A bug stays one, and what was stopped keeps its reason. */
export async function wrapping<T>(
  act: () => Promise<T> | T,
  wrap: (thrown: unknown) => Error,
  signal: AbortSignal,
): Promise<T> {
  try {
    return await act();
  } catch (thrown) {
    throw signal.aborted || !(thrown instanceof MountletError) ? thrown : wrap(thrown);
  }
}

/** The same in the plugin's own words and class, whatever the class was. */
export function inWords<T>(
  failureClass: FailureClass,
  words: string,
  act: () => Promise<T> | T,
  signal: AbortSignal,
): Promise<T> {
  return wrapping(act, (thrown) => csiError(failureClass, `${words}: ${messageOf(thrown)}`), signal);
}

/**
 * A failure before the driver was asked is no answer to what it was asked before: where an earlier attempt left its traces, the
 * driver may have done its work, and that it is over would mean that it is never undone.
 */
export function withoutVerdict<T>(hasTraces: () => boolean, act: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return wrapping(
    act,
    (thrown) => {
      if (!(thrown instanceof Error) || failureClassOf(thrown) !== 'final' || !hasTraces()) return thrown as Error;
      return new CsiError('uncertain', thrown.message);
    },
    signal,
  );
}
