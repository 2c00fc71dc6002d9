// Package serverless says what a request takes and costs when attention has a GPU and a model's
// experts are beside it on its host, or are functions of a serverless platform: equations 1 to 9
// and constraints 10b to 10i of Remoe (section III), one function each. Planners ask it with
// what they expect of a request, and the simulator with what came.
//
//	            ┌─ local experts, memory w ──┐
//	attention ──┤                            ├── max ── next layer
//	   (GPU)    └─ layer's function: memory y┘
//	               z replicas in prefill
//
// In prefill the experts of a layer's function are divided among its replicas, and in decode a
// token's remote experts are one invocation. Where the printed equations differ from that,
// System.Printed has their form: equations 5 and 9 charge an invocation for each expert.
//
// A model's local experts are computed one after the other, and so are those of a replica, as
// the paper's sums say.
package serverless
