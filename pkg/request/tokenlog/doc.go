// Package tokenlog is the log of a request: its acceptance, the claims of the
// attention replicas that own it, its tokens, and one terminal record.
//
// The log of one request is the messages of one subject. Every append names
// the sequence of the subject's last message and fails when another came
// between, so there is one order of records, and a writer that was replaced
// finds out at its next append:
//
//	accept(0)  claim(1)  token 0  token 1  claim(2)  token 2  …  terminal
//	           └─ owner a ─────────────┘   └─ owner b ───────────────────┘
//
// Nothing else guards it: no deduplication window (it forgets, and
// acknowledges other content as success) and no clock. An append whose
// acknowledgement was lost is tried again; when that fails, the message behind
// the last known one tells whether it had been stored.
//
// A claim's epoch is one more than the last claim's in the log, so epochs
// count a request's owners from 1.
package tokenlog
