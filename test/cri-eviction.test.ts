/** Disks that fill up, with containers of containerd. */
import './with-containerd.ts';
import './up-eviction.test.ts';
