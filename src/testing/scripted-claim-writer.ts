/** Writes claims as an API server would, into those of a test, and fails on command. */
import { applyStrategicMergePatch } from '../apiserver/patch/strategic-merge-patch.ts';
import type { ClaimStatusPatch } from '../kube/claim-resize.ts';
import { persistentVolumeClaim } from '../kube/objects/persistent-volume.ts';
import type { PersistentVolumeClaim } from '../kube/objects/persistent-volume.ts';
import type { ClaimWriter } from '../volumes/operations/claim-writer.ts';

type JsonObject = Parameters<typeof applyStrategicMergePatch>[0];

export class ScriptedClaimWriter implements ClaimWriter {
  readonly #claims: Map<string, PersistentVolumeClaim>;
  readonly patches: ClaimStatusPatch[] = [];
  readonly #ends: (Error | undefined)[] = [];

  constructor(claims: Map<string, PersistentVolumeClaim>) {
    this.#claims = claims;
  }

  /** The next patches end like this, one after another; those after them succeed. */
  script(...ends: readonly (Error | undefined)[]): void {
    this.#ends.push(...ends);
  }

  async patchStatus(_namespace: string, name: string, patch: ClaimStatusPatch): Promise<PersistentVolumeClaim> {
    const end = this.#ends.shift();
    if (end !== undefined) throw end;
    this.patches.push(patch);
    const before = this.#claims.get(name) as unknown as JsonObject;
    const { status } = patch;
    const after = applyStrategicMergePatch(before, { status } as unknown as JsonObject, persistentVolumeClaim);
    this.#claims.set(name, after as unknown as PersistentVolumeClaim);
    return after as unknown as PersistentVolumeClaim;
  }
}
