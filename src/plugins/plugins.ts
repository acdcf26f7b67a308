/** The door for authors of volume kinds: `import type { VolumePlugin } from 'mountlet/plugins'`. */
export { PluginRegistry } from './registry.ts';
export type { PluginMatch } from './registry.ts';
export { standardPlugins } from './registry.ts';
export type { StandardPluginDeps } from './registry.ts';
export * from './plugin.ts';
