package divide

// relieve moves whole shares of the busiest host to others of their expert's hosts, as long
// as that ends a layer sooner. Where such a host is too busy, one of its own shares goes on
// to a third: the greedy order may have given it a place that others need more.
func (d *Divider) relieve(shares []Share, experts []Expert) {
	d.index(shares)
	for range mostMoves * len(d.busy) {
		if !d.move(shares, experts) {
			return
		}
	}
}

// mostMoves bounds the moves of a division, by hosts.
const mostMoves = 2

func (d *Divider) index(shares []Share) {
	if len(d.on) < len(d.busy) {
		const few = 8 // more of a host's shares move to memory of their own
		d.on = make([][]int, len(d.busy))
		all := make([]int, few*len(d.on))
		for h := range d.on {
			d.on[h] = all[few*h : few*h : few*(h+1)]
		}
	}
	for h := range d.on {
		d.on[h] = d.on[h][:0]
	}
	for i, s := range shares {
		d.on[s.Host] = append(d.on[s.Host], i)
	}
}

// move makes one move, and reports whether there was one.
func (d *Divider) move(shares []Share, experts []Expert) bool {
	from := 0
	for h, b := range d.busy {
		if b > d.busy[from] {
			from = h
		}
	}
	limit := d.busy[from] * (1 - worth)
	for _, i := range d.on[from] {
		takes := d.takes(experts[shares[i].Expert].Units, shares[i].Rows)
		for _, h := range experts[shares[i].Expert].Hosts {
			if h == from || d.has(shares, shares[i].Expert, h) {
				continue
			}
			if d.busy[h]+takes <= limit || d.room(shares, experts, h, from, d.busy[h]+takes-limit, limit) {
				d.put(shares, experts, i, h)
				return true
			}
		}
	}
	return false
}

// room moves a share of at least so many seconds off a host to a third one that stays
// below the limit.
func (d *Divider) room(shares []Share, experts []Expert, host, not int, seconds, limit float64) bool {
	for _, i := range d.on[host] {
		takes := d.takes(experts[shares[i].Expert].Units, shares[i].Rows)
		if takes < seconds {
			continue
		}
		for _, h := range experts[shares[i].Expert].Hosts {
			if h != host && h != not && d.busy[h]+takes <= limit && !d.has(shares, shares[i].Expert, h) {
				d.put(shares, experts, i, h)
				return true
			}
		}
	}
	return false
}

// has reports whether an expert has a share on a host.
func (d *Divider) has(shares []Share, expert, host int) bool {
	for _, i := range d.on[host] {
		if shares[i].Expert == expert {
			return true
		}
	}
	return false
}

// put moves a share to another host.
func (d *Divider) put(shares []Share, experts []Expert, i, to int) {
	s := &shares[i]
	takes := d.takes(experts[s.Expert].Units, s.Rows)
	d.busy[s.Host] -= takes
	d.busy[to] += takes
	on := d.on[s.Host]
	for at := range on {
		if on[at] == i {
			on[at] = on[len(on)-1]
			d.on[s.Host] = on[:len(on)-1]
			break
		}
	}
	d.on[to] = append(d.on[to], i)
	s.Host = to
}
