/** An API server that goes away under pods in containers of containerd, and comes back. */
import './with-containerd.ts';
import './agent-away.test.ts';
