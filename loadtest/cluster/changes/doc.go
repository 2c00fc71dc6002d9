// Package changes tests that tokens stay the same, and few rows are sent twice, while plans,
// hosts and replicas of a pipeline change, hang, are slow or leave; and that what requests and
// operators are told of it is right.
package changes
