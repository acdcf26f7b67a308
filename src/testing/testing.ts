/** The door for other people's tests: `import { FakeClock, aPod } from 'mountlet/testing'`. */
export {
  aConfigMap,
  aContainer,
  aNode,
  aPod,
  aSecret,
  aService,
  objectReader,
  type PodParts,
} from './fakes/builders.ts';
export { FakeClock } from './fakes/fake-clock.ts';
export { type TestServer, startTestServer } from './servers/test-api-server.ts';
export { temporaryDirectory } from './machine/temporary-directory.ts';
