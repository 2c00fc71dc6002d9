// Package report says what a host computes and holds, in three places: among the members
// (Fill), in the metrics (Follow), and in load samples (Run), of which those on NATS have the
// rows of experts, and those that go to whoever decides by loads have the functions and the
// host's memory too.
//
// It asks the host's other rooms when it is to say something, and none of them knows it.
package report
