package catalog

import "slices"

// Add lists a service behind all others. Tests do, and take it back.
func Add(s Service) (undo func()) {
	before := all
	all = append(slices.Clip(all), s)
	return func() { all = before }
}

// All are the services of these places, in the order of a token's way, and behind them the
// others; without a place, all of them.
func All(places ...Place) (list []Service) {
	for _, s := range all {
		if len(places) == 0 || slices.Contains(places, s.Place) {
			list = append(list, s)
		}
	}
	return list
}

// Names are those of All.
func Names(places ...Place) (names []string) {
	for _, s := range All(places...) {
		names = append(names, s.Name)
	}
	return names
}

// StartOrder are the names of these places in the order of starting: on a token's way who is
// sent to comes before who sends.
func StartOrder(places ...Place) []string {
	var way, others []string
	for _, s := range All(places...) {
		if s.Place == Way {
			way = append(way, s.Name)
		} else {
			others = append(others, s.Name)
		}
	}
	slices.Reverse(way)
	return append(way, others...)
}

// Find is the service of a name.
func Find(name string) (s Service, known bool) {
	at := slices.IndexFunc(all, func(s Service) bool { return s.Name == name })
	if at < 0 {
		return Service{Name: name}, false
	}
	return all[at], true
}

// Kinds are all kinds of messages whose traffic is counted, by the token of their subjects
// behind the prefix.
func Kinds() (kinds []string) {
	for _, s := range all {
		for _, kind := range s.Takes() {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// Receivers are who receives messages with rows, by their kind.
func Receivers() map[string]string {
	to := map[string]string{}
	for _, s := range all {
		for _, kind := range s.Tensors {
			to[kind] = s.Name
		}
	}
	return to
}
