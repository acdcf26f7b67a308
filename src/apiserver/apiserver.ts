/** The door for programs that bring an API server along, tests above all: `import { startApiServer } from 'mountlet/apiserver'`. */
export { startApiServer } from './serving/api-server.ts';
export type { ApiServer, ApiServerDeps, ApiServerSettings } from './serving/api-server.ts';
export type { ApiNotice } from './model/notices.ts';
export { systemRandom } from './model/random.ts';
export type { KubeObject, Resource } from './model/resource.ts';
export { resources } from './resources/resources.ts';
export { DurableStore, backUpStore, restoreBackup, storeDefaults } from './store/durable-store.ts';
export type { Change, Store, StoredObject } from './store/store.ts';
