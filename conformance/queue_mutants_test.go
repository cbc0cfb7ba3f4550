package conformance_test

// queueMutants break the order of waiters and the way of a grant.
var queueMutants = []lockMutant{
	luaMutant("waiters are told to race", "release", "return e.mode == 'm' or nil", "return nil",
		"Queue/Newcomer", "Queue/HandOffCost"),
	luaMutant("newcomers do not see the queue", "acquire", "if fair and not value and redis.call('EXISTS', KEYS[3]) == 1 then", "if false then",
		"Queue/Newcomer"),
	luaMutant("who came last is first", "", "seq = math.max(last and now + after_all or now, (tonumber(before[2]) or 0) + 1)", "seq = -now",
		"Queue/Order", "Queue/PollersKeepTheirPlace", "Queue/PassedOver"),
	luaMutant("a place is not kept", "", "digits(math.max(e.expires, now / 1000 + life))", "digits(e.expires > 0 and e.expires or now / 1000 + life)",
		"Queue/PollersKeepTheirPlace"),
	luaMutant("all places look the same", "", "e = {seq = seq, passed", "e = {seq = '1', passed",
		"Queue/OldGrantIgnored"),
	luaMutant("a grant lasts a whole lease", "", "math.floor(math.min(e.ttl, e.expires - now))", "tonumber(e.ttl)",
		"Queue/DeadWaiter"),
	luaMutant("who cannot hear is waited for", "", "return not failed(count) and count[2] == 0", "return false",
		"Queue/PassedOver"),
	luaMutant("who cannot hear is removed", "", "redis.pcall('HSET', entries, reservation, 'gl1|1|1|'", "forget(queue, entries, reservation, ''",
		"Queue/PassedOver"),

	shortMutant("short: newcomers do not see the queue", "acquire", "redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5])", "redis.call('EXISTS', KEYS[1], KEYS[5])",
		"Queue/Newcomer"),
	shortMutant("short: who came last is first", "acquire", "'%d', now), tonumber", "'%d', -now), tonumber",
		"Queue/Order"),
	shortMutant("short: a wrong remaining time", "acquire", "return {0, left, record, seq}", "return {0, 1000 * left, record, seq}",
		"WakeUp/Expiry"),
	shortMutant("short: a grant lasts a whole lease", "release", "math.floor(math.min(ttl, left))", "tonumber(ttl)",
		"Queue/DeadWaiter"),
	shortMutant("short: who cannot hear is waited for", "release", "[2] == 0 then", "[2] == -1 then",
		"Queue/PassedOver"),
	shortMutant("short: nobody hears of the grant", "release", "redis.pcall('PUBLISH',", "redis.pcall('ECHO', 'nothing') --",
		"Queue/HandOffCost"),
}
