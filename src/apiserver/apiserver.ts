/** The door for programs that bring an API server along, tests above all: `import { startApiServer } from 'mountlet/apiserver'`. */
export { startApiServer } from './api-server.ts';
export type { ApiServer, ApiServerDeps, ApiServerSettings } from './api-server.ts';
export type { ApiNotice } from './notices.ts';
export { systemRandom } from './random.ts';
export type { KubeObject, Resource } from './resource.ts';
export { resources } from './resources.ts';
export { LmdbStore, backUpStore, restoreBackup, storeDefaults } from './store/lmdb-store.ts';
export type { Change, Store, StoredObject } from './store/store.ts';
