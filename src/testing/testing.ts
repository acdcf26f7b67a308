/** The door for tests of others: `import { FakeClock, aPod } from 'mountlet/testing'`. */
export { FakeClock } from './fake-clock.ts';
export { temporaryDirectory } from './temporary-directory.ts';
export * from './builders.ts';
