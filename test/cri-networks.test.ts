/** The network of pods in containers of containerd, made by CNI plugins. */
import './with-containerd.ts';
import './up-networks.test.ts';
