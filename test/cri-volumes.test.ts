/** Volumes and limits of pods in containers of containerd. */
import './with-containerd.ts';
import './up-volumes.test.ts';
