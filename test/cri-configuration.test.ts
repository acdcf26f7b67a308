/** Configuration on disk and in containers of containerd, and its updates. */
import './with-containerd.ts';
import './up-configuration.test.ts';
