module pgflash/tests/support/cnpg

go 1.24.0

require github.com/cloudnative-pg/cloudnative-pg v1.27.0
