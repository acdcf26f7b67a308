/** Imported first, it makes the tests of the files that follow run their pods in containers of containerd. */
import { containerdRuntime, testWith } from './tested-runtime.ts';

testWith(containerdRuntime);
