package catalog

// Grant is what a user needs for one purpose.
type Grant struct {
	Reason             string
	Publish, Subscribe []string
}

// Joining is what every service needs to have its place.
func Joining(n ModelNames) []Grant {
	return []Grant{
		{
			Reason:  "to find its streams and buckets",
			Publish: APIs("STREAM.INFO", append(n.All(), n.Weights())...),
		},
		{
			Reason:  "to read the plan",
			Publish: append(Watch(n.Bucket("plans")), Get(n.Bucket("plans"))),
		},
		{
			Reason:  "to read weights of the object store, if that is where its model is",
			Publish: append(Follow(n.Weights()), API("STREAM.MSG.GET", n.Weights())),
		},
		{
			Reason:  "to announce itself, and to see live replicas",
			Publish: []string{n.Keys("members"), n.AnyHere()}, Subscribe: []string{n.Keys("members"), n.AnyHere()},
		},
	}
}

// Following is for services that act on plans and on what hosts say of functions.
func Following(n ModelNames) Grant {
	return Grant{
		Reason:  "to follow plans, and what hosts and gates say of functions",
		Publish: append(Follow(n.Bucket("functions")), Under(API("CONSUMER.MSG.NEXT", n.Bucket("plans")))),
	}
}

// Logging is for services that write and read token logs.
func Logging(n ModelNames) Grant {
	stream := n.Streams.Tokens().Name
	return Grant{
		Reason:  "to write the token log, and to read what is in it",
		Publish: append(Follow(stream), n.Prefix+".token."+n.Model+".>", API("STREAM.MSG.GET", stream)),
	}
}

// Holding is for replicas that hand on what they took of a queue.
func Holding(n ModelNames, service string) Grant {
	all := []string{n.AnyHoldings(service)}
	return Grant{Reason: "to tell its siblings what it has taken, so that they give it back when it is gone", Publish: all, Subscribe: all}
}

// Taking is for receivers of tensors: out of streams or, with core hops, as they come. A
// user who may do the one sees no more by the other.
func Taking(reason string, subjects []string, streams ...string) Grant {
	return Grant{Reason: reason, Publish: Work(streams...), Subscribe: subjects}
}

// Planning is for services that may hold the planner's lease.
func Planning(n ModelNames) Grant {
	lease, plans := n.Key("leases", "planner"), n.Keys("plans")
	return Grant{
		Reason:  "to keep the plan, while it holds the planner's lease",
		Publish: []string{plans, lease, Get(n.Bucket("leases"))}, Subscribe: []string{lease, plans},
	}
}

// Draining is what every service needs that an operator can ask to drain.
func Draining(n ModelNames, service string) Grant {
	return Grant{
		Reason:    "to be asked to drain, and to say how that goes",
		Subscribe: []string{n.Drain(service, "*")}, Publish: []string{n.Drained(service, "*")},
	}
}

// StoringRows is for who puts rows into objects, where plans say so; nil: none do here.
func StoringRows(n ModelNames) []Grant {
	if !n.Streams.Moved {
		return nil
	}
	return []Grant{{Reason: "to store rows as objects, as plans with transfers indirect or pipelined want", Publish: []string{n.Streams.ObjectPrefix() + ">"}}}
}

// FetchingRows is for who gets rows out of objects.
func FetchingRows(n ModelNames) []Grant {
	if !n.Streams.Moved {
		return nil
	}
	return []Grant{{Reason: "to fetch rows that are stored as objects", Publish: []string{Get(n.Streams.Objects().Name)}}}
}

// RemovingRows is for who removes such objects when their rows are summed.
func RemovingRows(n ModelNames) []Grant {
	if !n.Streams.Moved {
		return nil
	}
	return []Grant{{Reason: "to remove the objects of rows that are summed", Publish: []string{API("STREAM.PURGE", n.Streams.Objects().Name)}}}
}
