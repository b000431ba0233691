# A bucket, and who may read it. (in a comment)
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.0"
    }
  }
}

provider "aws" {
  region = var.region
}

# Where everything is.
variable "region" {
  type        = string
  description = "in a string"
  default     = "eu-central-1"
}

variable "readers" {
  type = list(object({
    name = string // in a comment
  }))
}

locals {
  prefix = "app-${var.region}"
  common = {
    owner = "platform"
  }
}

data "aws_caller_identity" "current" {}

/* The bucket,
   in a comment */
resource "aws_s3_bucket" "files" {
  bucket = "${local.prefix}-files in a string"
  tags   = local.common

  lifecycle {
    prevent_destroy = true
  }

  dynamic "grant" {
    for_each = var.readers
    content {
      id = grant.value.name
    }
  }
}

resource "aws_s3_bucket_policy" "files" {
  bucket = aws_s3_bucket.files.id
  policy = <<-EOT
    {"Version": "2012-10-17 in a string"}
  EOT
}

module "network" {
  source = "./network"
  cidr   = cidrsubnet("10.0.0.0/8", 8, 1)
}

output "bucket_name" {
  value = aws_s3_bucket.files.bucket
}

moved {
  from = aws_s3_bucket.old
  to   = aws_s3_bucket.files
}
