// Package siblings hands on what a replica had of a work queue when it is gone, or hangs.
// It would wait there for the queue's AckWait otherwise. So each replica tells the others
// of its service what it has, and looks after the one before it in the order of ids: when
// that has no connection any more (pkg/control/liveness), or hangs, it gives its
// deliveries back, and the siblings that pull go on with them. One that was only disconnected
// finds that others have what it had, as after any other redelivery.
//
// What a replica has that lives can come to another one all the same: a server that was
// away delivers again what could not be renewed. Leave says when that is so.
package siblings
