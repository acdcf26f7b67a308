/** Raw devices of pods that exist in a list alone: every call is recorded among the plugin's, and fails on command. */
import type { BlockMapper, NewPodDevice, PodDevice } from '../../volumes/block.ts';

export type MapperStep = 'resolve' | 'map' | 'unmap' | 'referencesBelow' | 'remove';

export class ScriptedBlockMapper implements BlockMapper {
  /** From bind mounts to the devices that they show. */
  readonly binds = new Map<string, string>();
  readonly links = new Map<string, string>();
  /** Directories that a mapping made and that were not removed. */
  readonly mapPaths = new Set<string>();
  readonly #calls: string[];
  readonly #ends = new Map<MapperStep, (Error | undefined)[]>();

  constructor(calls: string[] = []) {
    this.#calls = calls;
  }

  /** The next calls of this step end like this, one after another. A mapping that fails may have been made in part. */
  script(step: MapperStep, ...ends: readonly (Error | undefined)[]): void {
    this.#ends.set(step, [...(this.#ends.get(step) ?? []), ...ends]);
  }

  async resolve(devicePath: string): Promise<string> {
    this.#end('resolve');
    return devicePath.replace('/dev/by-id/', '/dev/');
  }

  async map({ devicePath, mapPath, podUid, link }: NewPodDevice): Promise<void> {
    this.#calls.push(`map ${podUid}`);
    this.mapPaths.add(mapPath);
    this.binds.set(`${mapPath}/${podUid}`, devicePath);
    this.#end('map');
    this.links.set(link, devicePath);
  }

  async unmap({ mapPath, podUid, link }: PodDevice): Promise<void> {
    this.#calls.push(`unmap ${podUid}`);
    this.#end('unmap');
    this.links.delete(link);
    this.binds.delete(`${mapPath}/${podUid}`);
  }

  async referencesBelow(mapPath: string): Promise<readonly string[]> {
    this.#end('referencesBelow');
    return [...this.binds.keys()].filter((path) => path.startsWith(`${mapPath}/`));
  }

  async remove(mapPath: string): Promise<void> {
    this.#calls.push('remove');
    this.#end('remove');
    this.mapPaths.delete(mapPath);
  }

  /** What is left of all devices. */
  left(): readonly string[] {
    return [...this.binds.keys(), ...this.links.keys(), ...this.mapPaths];
  }

  #end(step: MapperStep): void {
    const end = this.#ends.get(step)?.shift();
    if (end !== undefined) throw end;
  }
}
