package smoke

import "pi-chrome/fixtures"

// Break returns options with which the function is called at the beginning of
// the step, with the pages' server and its address.
func Break(o Options, step string, do func(site *fixtures.Server, base string) error) Options {
	o.before = func(r *run, name string) error {
		if name != step {
			return nil
		}
		return do(r.site, r.base)
	}
	return o
}
