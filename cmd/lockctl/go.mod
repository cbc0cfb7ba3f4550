module github.com/golocker/golocker/cmd/lockctl

go 1.26.0

require (
	charm.land/bubbletea/v2 v2.0.10
	github.com/creack/pty v1.1.24
	github.com/golocker/golocker/conformance v0.0.0
	github.com/golocker/golocker/drivers/goredis v0.0.0
	github.com/golocker/golocker/drivers/redigo v0.0.0
	github.com/golocker/golocker/drivers/rueidis v0.0.0
	github.com/golocker/golocker/internal/servertest v0.0.0
	github.com/golocker/golocker/locker v0.0.0
	github.com/golocker/golocker/redlock v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/charmbracelet/colorprofile v0.4.3 // indirect
	github.com/charmbracelet/ultraviolet v0.0.0-20260703014108-f5a850f9c2b7 // indirect
	github.com/charmbracelet/x/ansi v0.11.7 // indirect
	github.com/charmbracelet/x/term v0.2.2 // indirect
	github.com/charmbracelet/x/termios v0.1.1 // indirect
	github.com/charmbracelet/x/windows v0.2.2 // indirect
	github.com/clipperhouse/displaywidth v0.11.0 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/lucasb-eyer/go-colorful v1.4.0 // indirect
	github.com/mattn/go-runewidth v0.0.23 // indirect
	github.com/muesli/cancelreader v0.2.2 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/xo/terminfo v0.0.0-20220910002029-abceb7e1c41e // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

replace (
	github.com/golocker/golocker/conformance => ../../conformance
	github.com/golocker/golocker/drivers/goredis => ../../drivers/goredis
	github.com/golocker/golocker/drivers/redigo => ../../drivers/redigo
	github.com/golocker/golocker/drivers/rueidis => ../../drivers/rueidis
	github.com/golocker/golocker/internal/servertest => ../../internal/servertest
	github.com/golocker/golocker/locker => ../../locker
	github.com/golocker/golocker/redlock => ../../redlock
)
