package lease

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// sought is the owner that a candidate looks for.
type sought struct {
	who  string          // "": nobody
	gone <-chan struct{} // closed when it has no connection any more; nil: nobody is looked for
	stop func()
}

// seek looks for a lease's owner from now on, if that can be found.
func (c *candidate) seek(l *pb.Lease) {
	who := ""
	if c.Watcher != nil && l.GetListens() && l.GetOwner() != c.owner {
		who = l.GetOwner()
	}
	if who == c.who {
		return
	}
	c.seekNobody()
	if who != "" {
		c.who = who
		c.gone, c.stop = c.Watcher.Watch(who)
	}
}

func (c *candidate) seekNobody() {
	if c.stop != nil {
		c.stop()
	}
	c.sought = sought{}
}

// isGone says whether the owner that was sought has no connection.
func (c *candidate) isGone() bool {
	select {
	case <-c.gone: // never, when nil
		return true
	default:
		return false
	}
}
