/** The door for whoever writes a volume kind of his own: `import type { VolumePlugin } from 'mountlet/plugins'`. */
export { PluginRegistry } from './registry.ts';
export type { PluginMatch } from './registry.ts';
export { standardPlugins } from './standard-plugins.ts';
export type { StandardPluginDeps } from './standard-plugins.ts';
export * from './plugin.ts';
