/** kubectl exec, attach, cp and port-forward into containers of containerd. */
import './with-containerd.ts';
import './up-streams.test.ts';
