module github.com/golocker/golocker/locker

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/stretchr/testify v1.12.1
	github.com/yuin/gopher-lua v1.1.1
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
