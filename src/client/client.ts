/** The door for programs that talk to an API server: `import { ApiClient, reflect } from 'mountlet/client'`. */
export { ApiClient, apiClientDefaults, connectApiClient } from './api/api-client.ts';
export * from './api/api-errors.ts';
export * from './api/resource-reference.ts';
export { clusterAccess } from './credentials/cluster-access.ts';
export { runCommand } from './credentials/exec-credentials.ts';
export { poolDefaults } from './transport/connection-pool.ts';
export { ObjectCache } from './object-cache.ts';
export { reflect } from './reflector.ts';
