// Package protocol holds a model of the writers of a request's log, and a test that
// visits all its states: two attention replicas, a cancellation, appends
// that are late, lost or sent again, crashes at any moment, foreign messages,
// and deliveries that come again while the owner lives.
//
//	take the sequence ─▶ read the log ─▶ claim(epoch+1) ─▶ tokens ─▶ end ─▶ acknowledge
//	                              │            └─doubtful─▶ trial ─▶ token, or over
//	                              └─crashed owners in trials─▶ end
//
// In every state the log is one that all readers take whole (tokenlog.Chain), no
// owner believes in what is not stored, a request that is acknowledged has its
// end, and where nothing more can happen it has one, too. One whose step takes its
// owners down takes a few, and no other is blamed for theirs.
package protocol
