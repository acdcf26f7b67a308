/** Static pods in containers of containerd. */
import './with-containerd.ts';
import './up-manifests.test.ts';
