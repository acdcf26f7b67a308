/** The life of pods in containers of containerd. */
import './with-containerd.ts';
import './up-pod-life.test.ts';
