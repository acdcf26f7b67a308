/** The program ends and comes back; containers of containerd have not noticed. */
import './with-containerd.ts';
import './up-restart.test.ts';
