/** The door for programs that talk to an API server: `import { ApiClient, reflect } from 'mountlet/client'`. */
export { ApiClient, apiClientDefaults } from './api-client.ts';
export * from './api-errors.ts';
export { clusterAccess } from './cluster-access.ts';
export { connectApiClient } from './connect.ts';
export { poolDefaults } from './connection-pool.ts';
export { ObjectCache } from './object-cache.ts';
export { reflect } from './reflector.ts';
export * from './resource-reference.ts';
export { runCommand } from './run-command.ts';
